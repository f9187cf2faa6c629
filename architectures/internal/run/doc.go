// Package run holds what text models share when they run: weights on their way
// to a device, passes that go on in a new session when the last one has grown,
// and decoders with their caches.
package run
