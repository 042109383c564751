#!/bin/sh
# Prolog of slurm.conf (with PrologFlags=Alloc): a private volume on the node's flash for jobs with -C nvme or -C spectral.
# Runs as root on every node of the job. Without the volume the job must not run: an error keeps it from starting here.
case "|$(echo "$SLURM_JOB_CONSTRAINTS" | tr '&,()[]*' '|||||||')|" in
*'|nvme|'* | *'|spectral|'*) ;;
*) exit 0 ;;
esac
exec /usr/bin/forebay local create "$SLURM_JOB_ID" --user "$SLURM_JOB_USER" --uid "$SLURM_JOB_UID" --gid "$(id -g "$SLURM_JOB_USER")"
