package main

import (
	"fmt"
	"slices"
	"strings"
)

// goals is by which factor our client is to be faster than another, with the
// digest of the file checked on both sides. One that checks nothing has the
// time that sha256 takes over its file added.
var goals = []struct {
	role   string
	factor float64
}{
	{"gomlx http", 1.5},
	{"python http", 3},
	{"xetc xet", 1.2},
	{"javascript xet", 1.6},
	{"python xet", 1},
}

// results is the runs of each client.
type results map[string][]result

func (rs results) median(role string, of func(result) float64) float64 {
	var v []float64
	for _, r := range rs[role] {
		v = append(v, of(r))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func wall(r result) float64    { return r.wall }
func checked(r result) float64 { return r.wall + r.check }

// ours is our client on the same road.
func ours(role string) string { return "ours " + role[strings.LastIndex(role, " ")+1:] }

// print gives medians, ratios and goals.
func (rs results) print(roles []string, size int64) {
	fmt.Printf("\nmedians of %d runs, %d MiB; ratios to ours on the same road\n", len(rs[roles[0]]), size>>20)
	for _, role := range roles {
		a, c := rs.median(role, wall), rs.median(role, checked)
		most := int64(0)
		for _, r := range rs[role] {
			most = max(most, r.rss)
		}
		cpu := rs.median(role, func(r result) float64 { return r.cpu })
		fmt.Printf("%-16s %7.3f s, %4.0f MB/s, cpu %6.3f s, rss up to %3d MiB", role, a, float64(size)/1e6/a, cpu, most>>10)
		switch {
		case strings.HasPrefix(role, "ours"):
			fmt.Print(", checked")
		case rs[ours(role)] != nil:
			o := rs.median(ours(role), wall)
			fmt.Printf(": %.2f; with a check %.3f s: %.2f", a/o, c, c/o)
		}
		fmt.Println()
	}
	for _, g := range goals {
		if rs[g.role] == nil || rs[ours(g.role)] == nil {
			continue
		}
		state := "missed"
		ratio := rs.median(g.role, checked) / rs.median(ours(g.role), wall)
		if ratio >= g.factor {
			state = "met"
		}
		fmt.Printf("goal: %.1f times %s, checked on both sides: %.2f, %s\n", g.factor, g.role, ratio, state)
	}
}
