#!/bin/bash
#SBATCH --job-name=mesh
#DW jobdw type=scratch access_mode=striped(client_cache=no) capacity=10GiB # 50% of what was asked for with type=cache
#DW jobdw type=scratch access_mode=private capacity=1GiB optimization_strategy=interference
#DW persistentdw name=reads	#kept from last year
#DW stage_in type=file source=/pfs/a#1 destination=$DW_JOB_STRIPED/a \
#DW # the input, name=a
#BB destroy_persistent name=old hurry # not used any more
