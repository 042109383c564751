#!/bin/bash
#DW jobdw type=scratch access_mode=striped capacity=10GiB
#DW stage_in type=directory source=/pfs/%Y/%u destination=$DW_JOB_STRIPED/in
#DW stage_out type=directory source="$DW_JOB_STRIPED/out" destination='/pfs/out'
#DW stage_out type=directory source=$DW_JOB_STRIPED/out destination=/pfs/100%
