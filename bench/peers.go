//go:build peers

package main

import (
	"runtime/debug"
	"slices"
)

// peers lists the other contenders, with the versions that were built in.
func peers() []Contender {
	all := []Contender{adkContender, trpcContender}
	modules := []string{"google.golang.org/adk", "trpc.group/trpc-go/trpc-agent-go"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for i, path := range modules {
			if at := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == path }); at >= 0 {
				all[i].Version = info.Deps[at].Version
			}
		}
	}
	return all
}
