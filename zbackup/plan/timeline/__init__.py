"""A recovery window as geometry: what lies where on a strip of time, in a bounded number of shapes. Pure."""
