#!/bin/bash
#DW jobdw type=scratch access_mode=striped capacity=10GiB # pool=fast is full
#DW # jobdw
#BB create_persistent name=a capacity=1GiB # type=scratch
