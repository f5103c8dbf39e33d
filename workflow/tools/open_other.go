//go:build !unix

package tools

const noWait = 0
