TIMEOUT=${TIMEOUT:-600} # seconds that a job has to end, and to start
readonly MARK=clusterplan
readonly TOP=4294967000 # a priority above all that Slurm gives by itself

skipped() {
  [ "$step" -lt "$from" ]
}

# Say and run a command that changes something; with print only say it.
change() { # ARGUMENTS OF SCONTROL
  { printf '+ scontrol' && printf ' %q' "$@" && echo; } >&2
  [ "$mode" = print ] || scontrol "$@"
}

# State and nodes of a job: "PENDING", or "RUNNING n1,n2"; "UNKNOWN" where Slurm has forgotten it.
now() { # JOB
  local state nodes
  read -r state nodes < <(squeue --noheader --array --states=all --jobs="$1" --format='%T %N' 2> /dev/null) || true
  case ${state:-} in
    RUNNING) echo "RUNNING $(scontrol show hostnames "$nodes" | LC_ALL=C sort | paste -sd,)" ;;
    *) echo "${state:-UNKNOWN}" ;;
  esac
}

# One field of what Slurm says of a job; never of its whole text, in which names of jobs may hold anything.
field() { # JOB NAME
  squeue --noheader --array --states=all --jobs="$1" --Format="$2:4000" | sed -n '1{s/ *$//; s/^(null)$//; p}' ||
    fail "step $step: squeue does not say what $2 of job $1 is"
}

# Stop unless a job is as a step supposes.
expect() { # JOB STATE
  local there
  [ "$mode" != print ] || return 0
  there=$(now "$1")
  [ "$there" = "$2" ] || fail "step $step: job $1 is '$there', where the plan supposes '$2'; nothing was done in this step"
}

wait_for() { # JOB STATE
  local there= raised= end=$((SECONDS + TIMEOUT))
  [ "$mode" != print ] || return 0
  until there=$(now "$1") && [ "$there" = "$2" ]; do
    [ "$SECONDS" -lt "$end" ] ||
      fail "step $step: job $1 is '$there' ($(field "$1" Reason)), planned is '$2'. Look with scontrol show job $1; then go on with: run $((step + 1)), or: back"
    # A job that is not in the plan, and waits before this one, must not keep it from its place. Slurm's
    # reason may be of an earlier look at the job.
    case $2 in
      RUNNING*)
        if [ -z "$raised" ] && [[ "$(field "$1" Reason)" != *eld* ]]; then
          raised=yes
          : > "$saved/$1.top"
          change update JobId="$1" Priority="$TOP"
        fi
        ;;
    esac
    sleep "${PAUSE:-2}"
  done
}

# Do these nodes take jobs?
check_nodes() { # NODE,NODE...
  local node state
  [ "$mode" != print ] || return 0
  for node in ${1//,/ }; do
    state=$(state_of "$node")
    case $state in
      idle | mixed | allocated | completing | planned) ;;
      *) fail "step $step: node $node is '${state:-unknown}' and takes no jobs; nothing was done in this step" ;;
    esac
  done
}

# Keep which nodes a job asked for before the first change; none if an earlier plan has named them.
save() { # JOB
  local nodes
  [ "$mode" != print ] && [ ! -e "$saved/$1" ] || return 0
  mkdir -p "$saved"
  nodes=$(field "$1" ReqNodes)
  [ "$(field "$1" admin_comment)" != "$MARK" ] || nodes=
  echo "$nodes" > "$saved/$1.part"
  mv "$saved/$1.part" "$saved/$1"
}

# A job that is held asks for these nodes, and then starts.
start_on() { # JOB NODE,NODE... NUMBER
  local words=(JobId="$1" NodeList="$2" StartTime=now) number=$3
  if [ "$mode" != print ]; then
    # Where the user has named no nodes, another plan may choose others.
    grep -q . "$saved/$1" || [ -n "$(field "$1" admin_comment)" ] || words+=(AdminComment="$MARK")
    number=$(field "$1" NumNodes)
  fi
  if [ "$number" != "$3" ]; then
    words+=(NumNodes="$3-$3")
    [ -e "$saved/$1.number" ] || echo "$number" > "$saved/$1.number"
  fi
  change update "${words[@]}"
  change release "$1"
  wait_for "$1" "RUNNING $2"
}

# A job asks for the nodes that it asked for before the first change.
restore() { # JOB
  local words=(JobId="$1" StartTime=now)
  [ -e "$saved/$1" ] || return 0
  words+=(NodeList="$(cat "$saved/$1")")
  [ ! -e "$saved/$1.number" ] || words+=(NumNodes="$(cat "$saved/$1.number")")
  [ "$(field "$1" admin_comment)" != "$MARK" ] || words+=(AdminComment=)
  change update "${words[@]}"
}

# The state of a node; without the marks of nodes that are planned for a job (-) or saved power (~ and #).
state_of() { # NODE
  sinfo --noheader --Node --nodes="$1" --format=%T | sed -n '1s/[-~#]*$//p'
}

# A node takes no more jobs, unless it takes none already.
drain() { # NODE
  if skipped; then return; fi
  if [ "$mode" != print ]; then
    case $(state_of "$1") in drain*) return ;; esac
    mkdir -p "$saved"
  fi
  change update NodeName="$1" State=DRAIN Reason="$MARK"
}

# The way back: a node that a plan has drained takes jobs again.
reopen() { # NODE
  [ "$(sinfo --noheader --Node --nodes="$1" --format=%E | head -n 1)" != "$MARK" ] || change update NodeName="$1" State=RESUME
}

# Those who wait must not take a place while steps are taken: jobs that are not in the plan are released at the
# end. They are held from the lowest priority on, since the next in the queue might start at once.
others=()
hold_all() { # JOB... of the plan that are held, too
  local job all=()
  while read -r job; do
    # Of a heterogeneous job all parts are held together.
    job=${job%%+*}
    case " $planned ${others[*]-} " in
      *" $job "*) case " $* " in *" $job "*) all+=("$job") ;; esac ;;
      *) others=("$job" ${others[@]+"${others[@]}"}) all+=("$job") ;;
    esac
  done < <(squeue --noheader --array --states=PENDING --sort=p,-i --format='%i %r' | sed '/[Hh]eld/d; s/ .*//')
  [ "${#all[@]}" -gt 0 ] || return 0
  trap release_others EXIT
  # One may start while this is said; the steps look at each job of the plan again.
  change hold "$(IFS=, && echo "${all[*]}")" || true
}

release_others() {
  [ "${#others[@]}" = 0 ] || change release "$(IFS=, && echo "${others[*]}")" || true
  others=()
}

# A job that waits must not start by itself.
hold() { # JOB
  if skipped; then return; fi
  expect "$1" PENDING
  change hold "$1"
  expect "$1" PENDING
}

# A job leaves its nodes and is held; it begins anew, or from what it has saved itself.
stop() { # JOB NODE,NODE...
  if skipped; then return; fi
  expect "$1" "RUNNING $2"
  save "$1"
  requeue "$1"
}

requeue() { # JOB
  change requeuehold "$1"
  wait_for "$1" PENDING
  # Slurm tells two starts of a job apart by the second.
  [ "$mode" = print ] || sleep "${SECOND:-1.1}"
}

# A job that is held starts on these nodes and no others; wait until it runs there.
place() { # JOB NODE,NODE... NUMBER
  if skipped; then return; fi
  expect "$1" PENDING
  check_nodes "$2"
  save "$1"
  start_on "$@"
}

# A job that is held may start wherever there is room, as before.
release() { # JOB
  if skipped; then return; fi
  expect "$1" PENDING
  restore "$1"
  change release "$1"
}

# The way back: a job that this script has started, or moved, leaves its nodes.
leave() { # JOB NODE,NODE...
  if [ "$mode" = back ] && [ "$(now "$1")" = "RUNNING $2" ] && [ -e "$saved/$1" ]; then
    requeue "$1"
  fi
}

# The way back: a job that this script has stopped is held, or leaves the nodes where it has started since.
leave_elsewhere() { # JOB NODE,NODE... where it ran
  [ -e "$saved/$1" ] || return 0
  # It may start while this is said.
  [ "$(now "$1")" != PENDING ] || change hold "$1" || true
  case $(now "$1") in
    "RUNNING $2" | PENDING) ;;
    RUNNING*) requeue "$1" ;;
  esac
}

# The way back: a job that this script has stopped returns to the nodes where it ran; else it waits at the end.
late=()
return_to() { # JOB NODE,NODE... NUMBER
  local node
  for node in ${2//,/ }; do
    case $(state_of "$node") in
      drain*)
        echo "job $1 cannot return to $node, which is drained: it waits" >&2
        late+=("$1")
        return
        ;;
    esac
  done
  if [ "$(now "$1")" = PENDING ] && [ -e "$saved/$1" ]; then
    start_on "$@"
  fi
}

# The way back: a job that waited waits as before.
let_wait() { # JOB
  if [ "$(now "$1")" = PENDING ]; then
    # Holding and releasing gives it the priority back that Slurm computes.
    change hold "$1"
    restore "$1"
    change release "$1"
  fi
}

# Is a job as the plan supposes?
check() { # JOB STATE
  local there
  there=$(now "$1")
  [ "$there" = "$2" ] || complain "job $1 is '$there', the plan supposes '$2'"
}

# Can a job that runs be requeued?
check_requeue() { # JOB
  [ "$(field "$1" Requeue)" = 1 ] || complain "job $1 cannot be requeued: it was submitted with --no-requeue"
  [ "$(field "$1" BatchFlag)" != 0 ] || complain "job $1 is interactive: it cannot be requeued"
}

check_node() { # NODE
  (check_nodes "$1") || wrong=1
}
