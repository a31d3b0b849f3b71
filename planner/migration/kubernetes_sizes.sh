# Where the numbers of pods of a part are: its object and the path, or each of its Jobs.
sized() { # KIND NAMESPACE NAME PATH
  local child
  case $1 in
    jobsets.jobset.x-k8s.io)
      # A JobSet refuses other numbers; those of its Jobs, which are indexed, may change.
      for child in $(kubectl -n "$2" get jobs.batch -l "jobset.sigs.k8s.io/jobset-name=$3,jobset.sigs.k8s.io/replicatedjob-name=$4" -o name); do
        echo "jobs.batch ${child##*/} spec.parallelism"
      done
      ;;
    *) echo "$1 $3 $4" ;;
  esac
}

size_patch() { # KIND PATH NUMBER
  case $1 in
    jobs.batch) echo "{\"spec\":{\"completions\":$3,\"parallelism\":$3}}" ;;
    *) nested "$2" "$3" ;;
  esac
}

# An object that is held gets other numbers of pods; on the way back those that it had before the first change.
resize() { # KIND NAMESPACE NAME PATH=NUMBER|before...
  if skipped "$@"; then return; fi
  local part number before kind name path
  for part in "${@:4}"; do
    while read -r kind name path <&3; do
      before="$saved/$kind.$2.$name.$path" number=${part#*=}
      if [ "$mode" = run ] && [ ! -e "$before" ]; then
        mkdir -p "$saved"
        kubectl -n "$2" get "$kind" "$name" -o "jsonpath={.$path}" > "$before"
      fi
      if [ "$number" = before ]; then
        [ -s "$before" ] || continue
        number=$(cat "$before")
      fi
      change -n "$2" patch "$kind" "$name" --type=merge -p "$(size_patch "$kind" "$path" "$number")"
    done 3< <(sized "$1" "$2" "$3" "${part%%=*}")
  done
}

# Would the server take other numbers of pods?
check_resize() { # KIND NAMESPACE NAME PATH=NUMBER...
  local part kind name path
  for part in "${@:4}"; do
    while read -r kind name path <&3; do
      kubectl -n "$2" patch "$kind" "$name" --type=merge --dry-run=server -p "$(size_patch "$kind" "$path" "${part#*=}")" > /dev/null ||
        complain "$2/$3: the server refuses ${part#*=} pods in $name"
    done 3< <(sized "$1" "$2" "$3" "${part%%=*}")
  done
}
