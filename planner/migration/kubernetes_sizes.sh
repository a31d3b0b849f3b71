# An object that is held gets other numbers of pods; on the way back those that it had before the first change.
resize() { # KIND NAMESPACE NAME PATH=NUMBER|before...
  if skipped "$@"; then return; fi
  local part child
  for part in "${@:4}"; do
    case $1 in
      jobsets.jobset.x-k8s.io)
        # A JobSet refuses other numbers; those of its Jobs, which are indexed, may change.
        for child in $(kubectl -n "$2" get jobs.batch -l "jobset.sigs.k8s.io/jobset-name=$3,jobset.sigs.k8s.io/replicatedjob-name=${part%%=*}" -o name); do
          resize_one jobs.batch "$2" "${child##*/}" spec.parallelism "${part#*=}"
        done
        ;;
      *) resize_one "$1" "$2" "$3" "${part%%=*}" "${part#*=}" ;;
    esac
  done
}

resize_one() { # KIND NAMESPACE NAME PATH NUMBER|before
  local before="$saved/$1.$2.$3.$4" number=$5
  if [ "$mode" = run ] && [ ! -e "$before" ]; then
    mkdir -p "$saved"
    kubectl -n "$2" get "$1" "$3" -o "jsonpath={.$4}" > "$before"
  fi
  if [ "$number" = before ]; then
    [ -s "$before" ] || return 0
    number=$(cat "$before")
  fi
  case $1 in
    jobs.batch) change -n "$2" patch "$1" "$3" --type=merge -p "{\"spec\":{\"completions\":$number,\"parallelism\":$number}}" ;;
    *) change -n "$2" patch "$1" "$3" --type=merge -p "$(nested "$4" "$number")" ;;
  esac
}
