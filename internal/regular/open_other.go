//go:build !unix

package regular

const noWait = 0
