#!/bin/bash
#DW jobdw type=scratch access_mode=private capacity=10GiB
#DW persistentdw name=reads
#DW stage_in type=file source=/pfs/a destination=$DW_JOB_STRIPED/a
#DW stage_in type=file source=/pfs/a destination=$DW_PERSISTENT_STRIPED_writes/a
#DW stage_in type=file source=/pfs/a destination=$DW_PERSISTENT_STRIPED_reads/a
#DW stage_in type=file source=/pfs/a destination=$DW_JOB_STRIPED_CACHE/a
#DW persistentdw name=my.reads
#DW stage_in type=file source=/pfs/b destination=$DW_PERSISTENT_STRIPED_my_reads/b
