#!/bin/sh
# TaskProlog of slurm.conf: says in the job's output which options of its #DW lines have no effect, names the private
# volume, and starts the drain where PERSIST_DIR and PFS_DIR ask for it. Runs as the user before each task; what it
# prints is for Slurm.
if [ -n "$FOREBAY_NOTE" ] && [ -z "$FOREBAY_NOTED" ]; then
    # Once: by the script, or without one by the first rank of the first step. Steps get the note anew from Slurm.
    case ${SLURM_STEP_ID:-0}-${SLURM_PROCID:-0} in
        0-0 | 4294967291-0) echo "print forebay: note: $FOREBAY_NOTE" ;;
    esac
    echo "export FOREBAY_NOTED=1"
fi
volume=${FOREBAY_LOCAL_ROOT:-/mnt/bb}/$USER
mountpoint -q "$volume" || exit 0
for name in BBPATH DW_JOB_PRIVATE FOREBAY_LOCAL; do
    printenv "$name" >/dev/null || echo "export $name=$volume"
done
if [ -n "$PERSIST_DIR" ] && [ -n "$PFS_DIR" ] && [ "${SLURM_LOCALID:-0}" = 0 ]; then
    FOREBAY_LOCAL=$volume /usr/bin/forebay drain start 2>&1 >/dev/null | sed 's/^/print /' | grep -v ' is drained to '
fi
exit 0
