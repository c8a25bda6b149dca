// Package lock has locks and semaphores that hold across processes.
package lock
