#!/bin/bash
#DW jobdw type=scratch access_mode=striped,striped capacity=1GiB pfs=/pfs/a
