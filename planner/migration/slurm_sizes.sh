# The GPUs of a job on each node, as Slurm is asked for so many of them; nothing where it asks in another way.
gres_of() { # JOB GPUS
  field "$1" tres-per-node | sed -nE "s/gres[:\/]//g; /gpu/{s/(gpu(:[A-Za-z_][^:,=]*)?)([:=][0-9]+)?/\1:$2/p}"
}

set_size() { # JOB TASKS GPUS
  local each gres= words
  if [ "$mode" != print ]; then
    each=$(field "$1" cpus-per-task)
    case $each in '' | *[!0-9]*) each=1 ;; esac
    [ "$3" = 0 ] || gres=$(gres_of "$1" "$3")
    case $gres in *:-*) fail "step $step: job $1 asks for the same GPUs on each of its nodes, and the plan has others" ;; esac
  fi
  words=(JobId="$1" NumTasks="$2" NumCPUs="$(($2 * ${each:-1}))")
  [ -z "$gres" ] || words+=(Gres="$gres")
  change update "${words[@]}"
}

# A job that is held asks for so many tasks, with these GPUs on each of its nodes.
resize() { # JOB TASKS GPUS
  if skipped; then return; fi
  expect "$1" PENDING
  save_size "$1"
  set_size "$@"
}

save_size() { # JOB
  [ "$mode" != print ] && [ ! -e "$saved/$1.size" ] || return 0
  mkdir -p "$saved"
  echo "$(field "$1" numtasks) $(field "$1" tres-per-node | sed -nE 's/.*gpu[^,]*[:=]([0-9]+).*/\1/p')" > "$saved/$1.size"
}

# The way back: a job that is held asks for what it asked for before the first change.
resize_back() { # JOB
  local tasks gpus
  [ -e "$saved/$1.size" ] && [ "$(now "$1")" = PENDING ] || return 0
  read -r tasks gpus < "$saved/$1.size"
  set_size "$1" "$tasks" "${gpus:-0}"
}

# A job that runs keeps only some of its nodes; it is requeued there if its script runs on another.
shrink() { # JOB NODE,NODE... NODE,NODE... NUMBER TASKS GPUS
  if skipped; then return; fi
  expect "$1" "RUNNING $2"
  save "$1"
  save_size "$1"
  case ",$3," in
    *",$(field "$1" BatchHost),"*)
      change update JobId="$1" NodeList="$3"
      wait_for "$1" "RUNNING $3"
      ;;
    *) echo "job $1: its script runs on a node that it leaves, so it is requeued" >&2
      requeue "$1"
      set_size "$1" "$5" "$6"
      start_on "$1" "$3" "$4"
      ;;
  esac
}

# Can a job have as many tasks, and GPUs on each of its nodes?
check_size() { # JOB TASKS GPUS NODES
  local each
  each=$(field "$1" ntpernode)
  case $each in
    '' | 0 | *[!0-9]*) ;;
    *) [ "$((each * $4))" = "$2" ] || complain "job $1 has --ntasks-per-node=$each, and the plan has $2 tasks on $4 nodes: submit it with --ntasks" ;;
  esac
  case $(gres_of "$1" "$3") in
    *:-*) complain "job $1 asks for the same GPUs on each of its nodes, and the plan has others: submit it with --gpus-per-task" ;;
  esac
}
