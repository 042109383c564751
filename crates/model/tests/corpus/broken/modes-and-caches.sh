#!/bin/bash
#DW jobdw type=cache access_mode=striped(client_cache capacity=1GiB
#DW persistentdw name=a/b
#BB create_persistent name=c capacity=1GiB access_mode=stripe type=disk
