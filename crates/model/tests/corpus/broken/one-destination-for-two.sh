#!/bin/bash
#DW jobdw type=scratch access_mode=striped capacity=10GiB
#DW stage_out source=$DW_JOB_STRIPED/a destination=/pfs/u/result type=file
#DW stage_out source=$DW_JOB_STRIPED/b destination=/pfs/u/./result type=file
#DW stage_out source=$DW_JOB_STRIPED/a destination=/pfs/u/result type=file
#DW stage_out source=$DW_JOB_STRIPED/run-1/log destination=/pfs/u/logs/ type=file
#DW stage_out source=$DW_JOB_STRIPED/run-2/log destination=/pfs//u/logs/ type=file
#DW stage_out source=$DW_JOB_STRIPED/other destination=/pfs/u/logs/ type=file
#DW stage_in source=/pfs/u/a destination=$DW_JOB_STRIPED/in type=file
#DW stage_in source=/pfs/u/b destination=${DW_JOB_STRIPED}/./in type=file
#DW stage_in source=/pfs/u//b destination=${DW_JOB_STRIPED} type=file
#DW stage_in source=/pfs/u/b destination=${DW_JOB_STRIPED}/ type=file
