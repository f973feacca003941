-- The size of what is in use in the file, without the blocks that are free.
SELECT used_blocks * block_size FROM pragma_database_size() WHERE database_name = 'store'
