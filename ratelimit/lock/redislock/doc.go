// Package redislock keeps locks and semaphores in Redis.
package redislock
