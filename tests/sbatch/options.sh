#!/bin/bash
#SBATCH --job-name=mesh --nodes=1 --ntasks-per-node=2 -c 1
#SBATCH --array=3-5:2
#SBATCH -o out.%x.%u.%3a.%s.%t -e err.%a.%n
#SBATCH --export=ALL,LEVEL=3
#DW jobdw type=scratch access_mode=striped capacity=64MiB
#DW stage_out type=file source=$DW_JOB_STRIPED/kept destination=%d/kept.%a
set -u
echo "task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT: $SLURM_ARRAY_TASK_MIN-$SLURM_ARRAY_TASK_MAX:$SLURM_ARRAY_TASK_STEP"
echo "ranks $SLURM_NTASKS $SLURM_NPROCS $SLURM_NTASKS_PER_NODE $SLURM_TASKS_PER_NODE, processors $SLURM_CPUS_PER_TASK"
echo "nodes $SLURM_NNODES $SLURM_JOB_NUM_NODES, level $LEVEL, $ENVIRONMENT"
echo "this is rank $SLURM_PROCID $SLURM_LOCALID $SLURM_GTIDS of node $SLURM_NODEID"
for name in "$SLURM_JOB_NODELIST" "$SLURM_NODELIST" "$SLURMD_NODENAME" "$SLURM_TOPOLOGY_ADDR"; do
    [ "$name" = "$(hostname -s)" ] || echo "$name is not this host"
done
: "$SLURM_SUBMIT_HOST $SLURM_JOB_PARTITION $SLURM_CLUSTER_NAME $SLURM_JOB_GID $SLURM_JOB_CPUS_PER_NODE $SLURM_CPUS_ON_NODE"
echo "an error" >&2
echo "kept by $SLURM_ARRAY_TASK_ID" >$DW_JOB_STRIPED/kept
task=$SLURM_ARRAY_TASK_ID
srun -n 2 -o step.$task.%s.%t.%2t -e none sh -c 'echo rank $SLURM_PROCID of $SLURM_NTASKS; echo lost >&2'
srun -n 2 -o step.$task.%s sh -c 'echo output; echo error >&2'
srun -n 2 -o 1 sh -c 'echo only rank $SLURM_PROCID'
srun -n 1 --chdir=$DW_JOB_STRIPED -o own.%t true
ls $DW_JOB_STRIPED
srun -n 1 --export=PATH,A=1 sh -c 'echo "A=$A LEVEL=${LEVEL-is not passed on} $SLURM_JOB_NAME"'
