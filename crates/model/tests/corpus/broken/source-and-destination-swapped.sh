#!/bin/bash
#DW jobdw type=scratch access_mode=striped capacity=10GiB
#DW stage_in type=file source=$DW_JOB_STRIPED/a destination=/pfs/a
#DW stage_out type=directory source=/pfs/out destination=$DW_JOB_STRIPED/out
#DW stage_in type=file source=$DW_JOB_STRIPED/a destination=$DW_JOB_STRIPED/b
#DW stage_out type=file source=/pfs/a destination=/pfs/b
