#!/bin/bash
#DW jobdw type=scratch access_mode=striped capacity=10GX
#BB create_persistent name=a capacity=0
#BB create_persistent name=b capacity=-1GiB
#BB create_persistent name=c capacity=1.3KiB
#BB create_persistent name=d capacity=20000PiB
#BB create_persistent name=e capacity=lots
#BB create_persistent name=f capacity=99999999999999999999nodes
