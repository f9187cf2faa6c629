// Package ramp decides how many transfers of one download run at once.
//
// Some servers give each connection a fixed share, and only more connections
// fill the link. On others one connection takes all there is, and more of them
// cost processor time and order. Neither is known beforehand, so a [Ramp]
// begins with one transfer, measures, and adds transfers as long as they add
// speed.
package ramp
