#!/bin/bash
#DW jobdw type=scratch access_mode=striped,striped(a=b) capacity=1GiB pfs=/pfs/a
