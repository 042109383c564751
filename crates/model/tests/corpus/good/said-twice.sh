#!/bin/bash
#DW jobdw type=scratch capacity=1GiB access_mode=striped,striped type=scratch access=striped,striped
#DW stage_in type=file source=/scratch/ada/a destination=$DW_JOB_STRIPED/a type=file
#BB create_persistent name=reads capacity=1GiB name=reads
#BB destroy_persistent name=reads hurry name=reads hurry
