readonly ALIVE='status.phase!=Succeeded,status.phase!=Failed'
readonly REQUIRED=affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
TIMEOUT=${TIMEOUT:-600} # seconds that pods have to end, and to start

skipped() { # KIND NAMESPACE NAME
  case $mode in
    back) [ ! -e "$saved/$1.$2.$3" ] ;; # run has not come to this object
    *) [ "$step" -lt "$from" ] ;;
  esac
}

# Say and run a command that changes something; with print only say it.
change() { # ARGUMENTS OF KUBECTL
  local word
  {
    printf '+ kubectl'
    for word in "$@"; do
      case $word in *[!A-Za-z0-9_./=,:@%+-]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac
    done
    echo
  } >&2
  [ "$mode" = print ] || kubectl "$@" >&2
}

# The labels that the pods of an object have.
selector() { # KIND NAMESPACE NAME
  case $1 in
    jobs.batch) echo "job-name=$3" ;;
    jobsets.jobset.x-k8s.io) echo "jobset.sigs.k8s.io/jobset-name=$3" ;;
    *.kubeflow.org) echo "training.kubeflow.org/job-name=$3" ;;
    *) kubectl -n "$2" get "$1" "$3" -o go-template='{{range $k, $v := .spec.selector.matchLabels}}{{$k}}={{$v}},{{end}}' | sed 's/,$//' ;;
  esac
}

# The servers that the pods of an object are on, each with how many: "n1 4,n2 4".
servers() { # KIND NAMESPACE NAME
  local labels= fields=$ALIVE
  if [ "$1" = pods ]; then fields="metadata.name=$3,$ALIVE"; else labels=$(selector "$@") || return; fi
  kubectl -n "$2" get pods -l "$labels" --field-selector "$fields" -o 'jsonpath={range .items[*]}{.spec.nodeName}{"\n"}{end}' |
    sed '/^$/d' | LC_ALL=C sort | uniq -c | awk '{ printf "%s%s %s", between, $2, $1; between = "," }'
}

# {"a":{"b":VALUE}} of a.b
nested() { # PATH VALUE
  local path=$1 value=$2
  while [ -n "$path" ]; do
    value="{\"${path##*.}\":$value}"
    case $path in *.*) path=${path%.*} ;; *) path= ;; esac
  done
  echo "$value"
}

# What holds pods to some servers; Kubernetes takes one name a term, and a server need meet only one term.
terms() { # SERVER,SERVER...
  local server all=
  for server in ${1//,/ }; do
    all="$all${all:+,}{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"$server\"]}]}"
  done
  echo "{\"nodeSelectorTerms\":[$all]}"
}

suspended() { # KIND true|false
  case $1 in
    *.kubeflow.org) nested spec.runPolicy.suspend "$2" ;;
    *) nested spec.suspend "$2" ;;
  esac
}

# Keep an object as it was before the first change.
save() { # KIND NAMESPACE NAME
  local file="$saved/$1.$2.$3"
  [ "$mode" != print ] && [ ! -e "$file" ] || return 0
  mkdir -p "$saved"
  kubectl -n "$2" get "$1" "$3" -o json > "$file.part"
  mv "$file.part" "$file"
}

was() { # KIND NAMESPACE NAME JSONPATH
  [ ! -e "$saved/$1.$2.$3" ] || kubectl patch --local -f "$saved/$1.$2.$3" --type=merge -p '{}' -o "jsonpath={$4}"
}

# A server takes no more pods; on the way back it does, unless it took none before.
drain() { # SERVER
  [ "$step" -ge "$from" ] || return 0
  if [ "$mode" != print ]; then
    [ "$(kubectl get nodes "$1" -o 'jsonpath={.spec.unschedulable}')" != true ] || return 0
    mkdir -p "$saved"
    : > "$saved/drained.$1"
  fi
  change cordon "$1"
}

reopen() { # SERVER
  [ ! -e "$saved/drained.$1" ] || change uncordon "$1"
}

# The pods of an object end, and no new ones start.
hold() { # KIND NAMESPACE NAME
  if skipped "$@"; then return; fi
  save "$@"
  local by
  case $1 in
    pods)
      change -n "$2" delete pods "$3" --ignore-not-found --timeout="${TIMEOUT}s"
      return
      ;;
    deployments.apps | statefulsets.apps) change -n "$2" scale "$1" "$3" --replicas=0 ;;
    *) change -n "$2" patch "$1" "$3" --type=merge -p "$(suspended "$1" true)" ;;
  esac
  by=$(selector "$@")
  change -n "$2" wait pods -l "$by" --field-selector "$ALIVE" --for=delete --timeout="${TIMEOUT}s"
}

# An object that is held may start its pods.
resume() { # KIND NAMESPACE NAME [AFFINITY]
  case $1 in
    pods)
      # What the server has added is left out; a new pod is made of the rest.
      local patch="{\"metadata\":{\"uid\":null,\"resourceVersion\":null,\"creationTimestamp\":null},\"spec\":{\"nodeName\":null,\"affinity\":${4:-{\}}},\"status\":null}"
      if [ "$mode" = print ]; then
        echo "+ kubectl create -f $saved/$1.$2.$3, with $patch" >&2
      else
        kubectl patch --local -f "$saved/$1.$2.$3" --type=merge -p "$patch" -o json | change create -f -
      fi
      ;;
    deployments.apps | statefulsets.apps) change -n "$2" scale "$1" "$3" --replicas="$(was "$@" .spec.replicas)" ;;
    *) change -n "$2" patch "$1" "$3" --type=merge -p "$(suspended "$1" false)" ;;
  esac
}

# Change which servers the pods of a held object may use. PATH leads to the specification of its pods.
limit() { # KIND NAMESPACE NAME PATH TERMS
  local child
  case $1 in
    jobsets.jobset.x-k8s.io)
      # A JobSet refuses another affinity even while it is suspended, and leaves that of its Jobs alone.
      for child in $(kubectl -n "$2" get jobs.batch -l "jobset.sigs.k8s.io/jobset-name=$3,jobset.sigs.k8s.io/replicatedjob-name=$4" -o name); do
        limit jobs.batch "$2" "${child##*/}" spec.template.spec "$5"
      done
      return
      ;;
    jobs.batch)
      # The template of a Job may change while it is suspended and says that it has not started.
      change -n "$2" patch "$1" "$3" --subresource=status --type=merge -p '{"status":{"startTime":null}}'
      ;;
    mpijobs.kubeflow.org)
      # Older operators start a launcher's Job as it was; where there is none they make a new one.
      case $4 in *.Launcher.*) change -n "$2" delete jobs.batch "$3-launcher" --ignore-not-found ;; esac
      ;;
  esac
  local before="$saved/$1.$2.$3.$4"
  if [ "$mode" = run ] && [ ! -e "$before" ]; then
    mkdir -p "$saved"
    kubectl -n "$2" get "$1" "$3" -o "jsonpath={.$4.$REQUIRED}" > "$before"
  fi
  if [ "$5" = before ]; then
    [ -e "$before" ] || return 0
    set -- "${@:1:4}" "$(cat "$before")"
  fi
  change -n "$2" patch "$1" "$3" --type=merge -p "$(nested "$4.$REQUIRED" "${5:-null}")"
}

# The pods of a held object start on these servers; wait until they are there.
place() { # KIND NAMESPACE NAME "SERVER NUMBER,..." PATH=SERVER,...
  if skipped "$@"; then return; fi
  local kind=$1 namespace=$2 name=$3 wanted=$4 part there= end=$((SECONDS + TIMEOUT))
  shift 4
  for part in $(sed 's/ [0-9]*//g; s/,/ /g' <<< "$wanted"); do
    [ "$mode" = back ] && [ "$(kubectl get nodes "$part" -o 'jsonpath={.spec.unschedulable}')" = true ] || continue
    echo "$namespace/$name cannot return to $part, which is cordoned: it waits" >&2
    release "$kind" "$namespace" "$name" "${@%%=*}"
    return
  done
  if [ "$kind" = pods ]; then
    resume "$kind" "$namespace" "$name" "$(nested "${REQUIRED#affinity.}" "$(terms "${1#*=}")")"
  else
    for part in "$@"; do
      limit "$kind" "$namespace" "$name" "${part%%=*}" "$(terms "${part#*=}")"
    done
    resume "$kind" "$namespace" "$name"
  fi
  [ "$mode" != print ] || return 0
  until there=$(servers "$kind" "$namespace" "$name") && [ "$there" = "$wanted" ]; do
    [ "$SECONDS" -lt "$end" ] ||
      fail "step $step: $namespace/$name is on '$there', planned is '$wanted'. Look with kubectl -n $namespace get pods -o wide; then go on with: run $((step + 1)), or: back"
    sleep "${PAUSE:-3}"
  done
}

# An object that is held may start its pods wherever there is room; on the way back as before the first change.
release() { # KIND NAMESPACE NAME PATH...
  if skipped "$@"; then return; fi
  local part
  if [ "$mode" = back ] && [ "$1" != pods ]; then
    for part in "${@:4}"; do limit "$1" "$2" "$3" "$part" before; done
  fi
  resume "$1" "$2" "$3"
}

# Is an object where the plan supposes, and may it be changed?
check() { # KIND NAMESPACE NAME "SERVER NUMBER,..."
  local there
  if ! there=$(servers "$1" "$2" "$3") || ! kubectl -n "$2" get "$1" "$3" -o name > /dev/null; then
    complain "$2/$3: cannot be read"
    return
  fi
  [ "$there" = "$4" ] || complain "$2/$3: its pods are on '$there', the plan supposes '$4'"
  case $1 in
    pods) kubectl -n "$2" delete pods "$3" --dry-run=server > /dev/null || complain "$2/$3: cannot be deleted" ;;
    deployments.apps | statefulsets.apps)
      kubectl -n "$2" scale "$1" "$3" --replicas=0 --dry-run=server > /dev/null || complain "$2/$3: cannot be scaled"
      ;;
    *)
      kubectl -n "$2" patch "$1" "$3" --type=merge -p "$(suspended "$1" true)" --dry-run=server > /dev/null ||
        complain "$2/$3: cannot be suspended"
      ;;
  esac
  case $1 in
    jobs.batch | jobsets.jobset.x-k8s.io)
      kubectl -n "$2" auth can-i -q patch jobs.batch --subresource=status || complain "$2: you may not patch jobs/status"
      ;;
  esac
}

# Would the server take the change of an object? A Job's can be tried only while it is suspended: in its step.
check_place() { # KIND NAMESPACE NAME PATH=SERVER,...
  local part
  case $1 in pods | jobs.batch | jobsets.jobset.x-k8s.io) return ;; esac
  for part in "${@:4}"; do
    kubectl -n "$2" patch "$1" "$3" --type=merge --dry-run=server \
      -p "$(nested "${part%%=*}.$REQUIRED" "$(terms "${part#*=}")")" > /dev/null ||
      complain "$2/$3: the server refuses to place it on ${part#*=}"
  done
}

check_server() { # SERVER
  local cordoned
  cordoned=$(kubectl get nodes "$1" -o 'jsonpath={.spec.unschedulable}') || complain "$1: cannot be read"
  [ "$cordoned" != true ] || complain "$1: is cordoned"
}
