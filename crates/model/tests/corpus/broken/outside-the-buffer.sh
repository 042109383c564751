#!/bin/bash
#DW jobdw type=scratch access_mode=striped capacity=10GiB
#DW stage_in type=file source=/pfs/a destination=$DW_JOB_STRIPED/../other/a
#DW stage_in type=file source=/pfs/a destination=$DW_JOB_STRIPEDa
#DW stage_in type=file source=/pfs/a destination=/bb/a
