#!/bin/bash
#DW jobdw type=scratch access_mode=striped \
          capacity=10GiB
#DW stage_in type=file \
#BB source=/pfs/a destination=$DW_JOB_STRIPED/a
#DW stage_out type=file source=$DW_JOB_STRIPED/a \ 
#DW destination=/pfs/a
#DW stage_in type=file \
