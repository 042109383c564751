#!/bin/bash
#SBATCH -p regular -N 1 -t 5
#BB create_persistent name=ada_reads capacity=1.5TB access=striped type=scratch
