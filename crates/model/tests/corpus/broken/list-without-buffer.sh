#!/bin/bash
#DW stage_in type=list source=/pfs/list
#DW stage_out type=list source=/pfs/list destination=/pfs/out
#DW stage_out type=list source=$DW_JOB_STRIPED/list
