(table $table 1 funcref)
