#!/bin/bash
#BSUB -P #ACCOUNT
#BSUB -J NAS-BTIO
#BSUB -o nasbtio.o%J
#BSUB -e nasbtio.e%J
#BSUB -W 10
#BSUB -nnodes 1
#BSUB -alloc_flags nvme

export BBPATH=/mnt/bb/$USER/
jsrun -n 1 cp btio ${BBPATH}
jsrun -n 1 cp input* ${BBPATH}
jsrun -n 1 -a 16 -c 16 -r 1 ${BBPATH}/btio
jsrun -n 1 ls -l ${BBPATH}/
jsrun -n 1 cp ${BBPATH}/* .
