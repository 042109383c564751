#!/bin/bash
#DW create_persistent name=reads capacity=1GiB
#BB jobdw type=scratch access_mode=striped capacity=1GiB
#BB create_persistent name=2reads capacity=1GiB
#BB destroy_persistent name=reads now
#DW name=reads persistentdw
