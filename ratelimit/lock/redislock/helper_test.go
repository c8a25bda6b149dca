package redislock_test

const helperEnv = "REDISLOCK_TEST_HELPER"

func help(string) int { return 2 }
