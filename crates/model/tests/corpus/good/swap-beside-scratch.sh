#!/bin/bash
#SBATCH -N 2
#DW jobdw type=scratch access_mode=striped capacity=160GB
#DW swap 150GB pool=sm_pool
srun ./eigen
