#!/bin/bash
#DW jobdw
#DW stage_in source=/pfs/a
#DW persistentdw
#DW swap
