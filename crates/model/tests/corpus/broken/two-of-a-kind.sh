#!/bin/bash
#DW jobdw type=scratch access_mode=striped capacity=10GiB
#DW jobdw type=scratch access_mode=private capacity=10GiB pool=other
#DW persistentdw name=reads
#DW persistentdw name=reads
#DW swap 1GiB
#DW swap 2GiB
#BB create_persistent name=a capacity=1GiB
#BB create_persistent name=a capacity=2GiB
#DW jobdw type=scratch access_mode=private,striped capacity=1GiB
