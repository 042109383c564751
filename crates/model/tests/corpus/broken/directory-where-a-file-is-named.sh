#!/bin/bash
#DW jobdw type=scratch access_mode=striped capacity=10GiB
#DW stage_in type=file source=/pfs/a/ destination=$DW_JOB_STRIPED/a
#DW stage_out type=file source=$DW_JOB_STRIPED/ destination=/pfs/a
#DW stage_in type=file source=/pfs/*.fits destination=$DW_JOB_STRIPED/a
