#!/bin/sh
#DW jobdw type=scratch access_mode=private capacity=2nodes write_window_length=86400 optimization_strategy=bandwidth
#DW stage_out type=file source=$DW_JOB_PRIVATE/trace destination=/scratch/ada/trace
./trace $DW_JOB_PRIVATE/trace
