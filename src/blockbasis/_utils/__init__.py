"""What every package uses: linear algebra, threads, checks of arguments, progress, files, the machine."""
