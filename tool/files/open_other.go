//go:build !unix

package files

const noWait = 0
