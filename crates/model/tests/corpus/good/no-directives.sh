#!/bin/bash
#SBATCH -N 1
# DW is not used here. ##DW jobdw would switch a directive off:
##DW jobdw capacity=1GiB access_mode=striped type=scratch
echo "#DW in the middle of a line is text"
