module github.com/rlgen/rlgen

go 1.26
