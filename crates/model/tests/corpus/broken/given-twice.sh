#!/bin/bash
#DW jobdw type=scratch access_mode=striped access=private capacity=1GiB capacity=2GiB
