#!/bin/bash
#DW jobdw type= access_mode = striped capacity=10 GiB
#DW persistentdw name ada
