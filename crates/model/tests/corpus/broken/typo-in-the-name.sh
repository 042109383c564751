#!/bin/bash
#DW jobwd capacity=10GiB access_mode=striped type=scratch
#DW stage-in type=file source=/pfs/a destination=$DW_JOB_STRIPED/a
#DW container name=web
#DW
