#!/bin/bash
#dw jobdw capacity=10GiB access_mode=striped type=scratch
  #DW stage_in type=file source=/pfs/a destination=$DW_JOB_STRIPED/a
#DWstage_out type=file source=$DW_JOB_STRIPED/b destination=/pfs/b
