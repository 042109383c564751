-- `module load spectral` (Lmod). The drain itself starts with the job's tasks: see task_prolog.sh.
help([[Drains files from the node's own flash to the parallel file system while the job runs.
Set PERSIST_DIR (a folder in /mnt/bb/$USER) and PFS_DIR, write to PERSIST_DIR, and end the script with spectral_wait.py.]])
whatis("Name: spectral (Forebay)")
prepend_path("PATH", "/usr/libexec/forebay/spectral")
