#!/bin/bash
#SBATCH -N1 -t1
#BB destroy_persistent name=ada_reads hurry
