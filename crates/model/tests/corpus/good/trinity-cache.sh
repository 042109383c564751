#!/bin/bash
#SBATCH -N 8
#DW jobdw type=cache access_mode=striped,ldbalance pfs=/lustre/ttscratch1/ada/deck capacity=3TiB
srun ./hydro deck.in
