def package_cases(): return ()
