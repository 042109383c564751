#!/bin/bash
#DW jobdw capcity=10GiB acess_mode=striped type=scrach
#DW stage_in type=dir source=/pfs/a destination=$DW_JOB_STRIPED/a
#DW stage_in type=file src=/pfs/a destination=$DW_JOB_STRIPED/a
