#!/bin/bash
#DW jobdw type=scratch access_mode=striped access=private capacity=1GiB capacity=2GiB
#BB destroy_persistent name=a name=b
#DW swap 1GiB 2GiB
