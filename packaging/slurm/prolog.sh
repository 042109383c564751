#!/bin/sh
# Prolog of slurm.conf (with PrologFlags=Alloc): a private volume on the node's flash for jobs with -C nvme or -C spectral.
# Runs as root on every node of the job, which does not start before. A prolog that fails has Slurm drain the node, so
# this one fails only for what an operator has to mend. A job whose volume its user's other jobs stand in the way of, or
# for which there is no room now, goes back into the queue.
case "|$(echo "$SLURM_JOB_CONSTRAINTS" | tr '&,()[]*' '|||||||')|" in
*'|nvme|'* | *'|spectral|'*) ;;
*) exit 0 ;;
esac
job=$SLURM_JOB_ID
said=$(/usr/bin/forebay local create "$job" --user "$SLURM_JOB_USER" --uid "$SLURM_JOB_UID" \
    --gid "$(id -g "$SLURM_JOB_USER")" 2>&1) && exit 0
status=$?
echo "$said" >&2
# 65: nothing is wrong with the node.
[ "$status" = 65 ] || exit "$status"
logger -t forebay-prolog "job $job goes back into the queue: $said"

# Prints "NAME BATCH REQUEUE" of a job that runs or is about to, where NAME is not the whole array of an array's task.
running() {
    found=$(squeue --noheader --jobs="$1" --states=CONFIGURING,RUNNING \
        --Format=JobID:12,JobArrayID:32,BatchFlag:4,Requeue:4) || return
    echo "$found" | sed -n "s/^$1  *//p"
}

# It is begun again when the job of its user that has the place here has ended, and not before slurmd has forgotten its
# credential: until then slurmd runs no prolog for it.
lifetime=$(scontrol show config | sed -n 's/^AuthInfo .*cred_expire=\([0-9]*\).*/\1/p')
later="StartTime=now+$((${lifetime:-120} + 20))"
path=${FOREBAY_LOCAL_ROOT:-/mnt/bb}/$SLURM_JOB_USER
holder=$(/usr/bin/forebay local list | sed -n "s|^\([0-9]*\): .*, at $path\$|\1|p")
[ "${holder:-$job}" = "$job" ] || holder=$(running "$holder") || holder=
[ -z "${holder%% *}" ] || [ "$holder" = "$job" ] || later="$later Dependency=afterany:${holder%% *}"

# Until it is certain that it does not begin here; slurmctld may be away. Nothing of it has run: its own buffer, where it
# has one, owes nothing, so Slurm is to stage nothing out; and --no-requeue does not forbid this. What salloc and srun ask
# for cannot wait in the queue.
while ! state=$(running "$job") || [ -n "$state" ]; do
    # shellcheck disable=SC2086 # words
    set -- $state
    case $2 in
    '') ;;
    0)
        scontrol notify "$job" "$SLURMD_NODENAME: $said"
        scancel --hurry "$job"
        ;;
    *)
        /usr/bin/forebay rm "$job" --discard --force
        [ "$3" = 1 ] || scontrol update JobId="$1" Requeue=1
        scontrol requeue "$1" && scontrol update JobId="$1" $later
        [ "$3" = 1 ] || scontrol update JobId="$1" Requeue=0
        ;;
    esac
    sleep 1
done 2>/dev/null
exit 0
